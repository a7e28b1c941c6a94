"""Closed word lists of the grounded annotator: English function words, months, number words, verbs with past forms."""


def words(text: str) -> frozenset[str]:
    """The words of ``text`` as a set."""
    return frozenset(text.split())


MONTHS = (
    "January", "February", "March", "April", "May", "June", "July",
    "August", "September", "October", "November", "December",
)  # fmt: skip
MONTH = "|".join(MONTHS)

_NUMBERS = (
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "thirteen", "fourteen",
    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
)  # fmt: skip
NUMBER_WORDS = {word: str(value) for value, word in enumerate(_NUMBERS, start=2)}

FUNCTION_WORDS = words(
    """a an the and or but nor of in on at to from by for with without as into onto upon about over under between among
    through during before after until since than then so if while although though because that which who whom whose what
    when where why how is are was were be been being am has have had having do does did done will would shall should can
    could may might must not no it its itself he him his himself she her hers herself they them their theirs themselves
    we us our you your i me my this these those there here also s"""
)
"""Words without meaning of their own; they never are key terms."""

QUESTION_WORDS = words("many much given named connection regard")
"""Words that question templates add; they aren't asked of a tile's text."""

SUBJECT_PRONOUNS = words("he she it they this these those there his her its their such we i you")
PRONOUNS = SUBJECT_PRONOUNS | words("him them himself herself itself themselves hers theirs")
AUXILIARIES = words("is are was were has had have can could will would may might must should")

_REGULAR = words(
    """abandon abolish absorb accept accompany achieve acquire adapt add address adopt advance affect agree allow
annex announce appear appoint approve argue arrest arrive assemble assist attack attempt attend attract award ban base
believe belong borrow call cancel capture cause celebrate change charge claim climb close collaborate collapse collect
combine command commission compare compete compile complete compose conclude conduct confirm connect conquer consider
construct contain continue contribute control convert convince cover create criticize cross debut decide declare decline
defeat defend defend define deliver demand demonstrate deny depart describe design destroy determine develop devote die
direct disappear discover discuss dismiss display divide divorce dominate donate double earn edit elect eliminate emerge
emigrate employ enable encounter encourage end endorse enjoy enlist enroll ensure enter escape establish estimate evolve
examine exceed exchange execute exhibit exist expand experience explain explore export express extend face fail favor
feature finance finish fire fix focus follow force form formulate found function gain gather govern graduate grant guide
happen head help host identify illustrate imagine implement import impose impress imprison improve include increase
indicate influence inform inherit initiate inspire install instruct intend interview introduce invade invent invest
invite involve issue join judge kill label lack land last launch learn lecture liberate like limit link list live load
locate lower maintain manage march mark marry measure mention merge migrate miss mount move murder name need note
notice number obtain occupy occur offer open operate oppose order organize originate overturn own paint participate
pass perform persuade pioneer plan plant play point portray possess praise predict prefer prepare present preserve
press prevent print proclaim produce promise promote propose protect prove provide publish purchase pursue push
qualify question raise range rank reach react realize receive recognize recommend record recover reduce refer refuse
regain regard reject relate release rely remain remark remove rename renounce repeal replace report represent request
require research resemble resign resolve respond restore result retain retire return reveal review revise revive rival
rule sail score seize select separate serve settle share shift show sign sketch smoke spark specialize sponsor
star start state stay stop study submit succeed suffer suggest supervise supply support surpass surrender
survive switch talk target taste threaten tie top total tour trace trade train transfer transform translate travel
trigger try turn undermine unite unveil use utilize value vary view visit vote walk want warn watch weaken welcome
widen wish witness work worship"""
)

_IRREGULAR = words(
    """arose:arise became:become began:begin bore:bear bought:buy broke:break brought:bring built:build
burnt:burn came:come caught:catch chose:choose dealt:deal drew:draw drove:drive fell:fall felt:feel fled:flee flew:fly
forbade:forbid fought:fight found:find froze:freeze gave:give got:get grew:grow held:hold hid:hide kept:keep knew:know
laid:lay lay:lie led:lead left:leave lent:lend lost:lose made:make meant:mean met:meet paid:pay ran:run rang:ring
rebuilt:rebuild rode:ride rose:rise said:say sang:sing sank:sink sat:sit saw:see sent:send shot:shoot slept:sleep
sold:sell sought:seek spent:spend spoke:speak stole:steal stood:stand struck:strike swam:swim swore:swear taught:teach
thought:think threw:throw told:tell took:take undertook:undertake underwent:undergo understood:understand went:go
withdrew:withdraw woke:wake won:win wore:wear wrote:write overthrew:overthrow oversaw:oversee leapt:leap
    wept:weep dreamt:dream swept:sweep bent:bend
    bound:bind clung:cling crept:creep dug:dig drank:drink ate:eat forgot:forget forgave:forgive hung:hang heard:hear
shook:shake shone:shine shrank:shrink slid:slide spun:spin sprang:spring stuck:stick stung:sting swung:swing
tore:tear wound:wind withheld:withhold withstood:withstand upheld:uphold outlived:outlive drove:drive"""
)

_AMBIGUOUS = words("found bound wound lay")  # past forms that are base forms of other verbs
_DOUBLING = words("ban stop prefer refer star transfer plan admit commit permit occur")


def _past(base: str) -> str:
    if base in _DOUBLING:
        return base + base[-1] + "ed"
    if base.endswith("y") and base[-2] not in "aeiou":
        return base[:-1] + "ied"
    return base + ("d" if base.endswith("e") else "ed")


BASE_OF_PAST = {_past(base): base for base in sorted(_REGULAR)} | {
    past: base for past, base in (entry.split(":") for entry in sorted(_IRREGULAR)) if past not in _AMBIGUOUS
}
"""{past form: base form} of the verbs that questions with `did` may use."""

VERB_FORMS = AUXILIARIES | BASE_OF_PAST.keys() | {base + "s" for base in BASE_OF_PAST.values()} | {"did", "does", "do"}
"""Words that show that a clause has a finite verb (not all verbs are known)."""
