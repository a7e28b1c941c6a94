"""Readable labels for infobox parameters, and which parameters show nothing in words."""

import re

HIDDEN = re.compile(
    r"(.*_)?(image|img|photo|picture|logo|insignia|alt|caption|map|map\d|size|width|style|colou?r|ref|refs|icon|align|link|filename"
    r"|coa|crest|sortname|demo|pixels|footnotes?|signature|embed|child|module|audio|sound|coordinates|url)(_.*)?"
    r"|.*(image|imagesize|mapsize|caption|link|url|bodyclass)|lat[dmns]+|long[dmew]+|lat[is]*_?\w?|(latitude|longitude).*"
    r"|footnote.*|.*_type_article|nocat|common_name|iso.*code|.*_change|wikidata|wikisource|commons|range_map|collapsed|display.*"
    r"|area_magnitude|(diseases|emedicine|medlineplus|mesh|omim|icd|genereviews|glotto|tennishof|gutenberg|lingua).*|cianame|edbr"
    r"|iso\d*|medaltemplates.*|othertournaments|tz\dwhere|thesis_url|quarterreleasedate|apsis|flag|alt_flag|flag_type"
    r"|symbol_type|entityadjective|protoname|oclc|dewey|congress|status_system|updated|team"
)  # fmt: skip
TITLE_KEYS = (
    "name",
    "conventional_long_name",
    "official_name",
    "fullname",
    "title",
    "taxon",
    "conflict",
    "document_name",
)
MERGED = {  # one row made of several parameters, as Wikipedia shows them
    "Born": ("birth_name", "birth_date", "birth_place", "birthdate", "birthplace"),
    "Died": ("death_date", "death_place", "deathdate", "deathplace"),
}
LABELS = {
    "area_km2": "Area (km²)",
    "area_sq_mi": "Area (sq mi)",
    "area_total_km2": "Total area (km²)",
    "area_total_sq_mi": "Total area (sq mi)",
    "totalarea": "Total area (km²)",
    "totalareaus": "Total area (sq mi)",
    "landarea": "Land area (km²)",
    "landareaus": "Land area (sq mi)",
    "waterarea": "Water area (km²)",
    "waterareaus": "Water area (sq mi)",
    "pcwater": "Water (%)",
    "percent_water": "Water (%)",
    "percentwater": "Water (%)",
    "arearank": "Area rank",
    "poprank": "Population rank",
    "densityrank": "Density rank",
    "2000density": "Density (per km², 2000)",
    "2000densityus": "Density (per sq mi, 2000)",
    "2010density": "Density (per km², 2010)",
    "2010densityus": "Density (per sq mi, 2010)",
    "2010pop": "Population (2010)",
    "incomerank": "Income rank",
    "medianhouseholdincome": "Median household income",
    "length": "Length (km)",
    "lengthus": "Length (mi)",
    "highestpoint": "Highest point",
    "highestelev": "Highest elevation (m)",
    "highestelevus": "Highest elevation (ft)",
    "lowestpoint": "Lowest point",
    "lowestelev": "Lowest elevation (m)",
    "lowestelevus": "Lowest elevation (ft)",
    "meanelev": "Mean elevation (m)",
    "meanelevus": "Mean elevation (ft)",
    "admittancedate": "Admitted to the Union",
    "admittanceorder": "Order of admission",
    "officiallang": "Official language",
    "largestcity": "Largest city",
    "largestmetro": "Largest metro",
    "largestcounty": "Largest county",
    "upperhouse": "Upper house",
    "lowerhouse": "Lower house",
    "stateanthem": "State anthem",
    "postalabbreviation": "Postal abbreviation",
    "tradabbreviation": "Traditional abbreviation",
    "postalcodeprefix": "Postal code prefix",
    "population_density_km2": "Population density (per km²)",
    "population_density_sq_mi": "Population density (per sq mi)",
    "former": "Former name",
    "fullname": "Full name",
    "regnum": "Kingdom",
    "classis": "Class",
    "ordo": "Order",
    "familia": "Family",
    "familia_authority": "Family authority",
    "subfamilia": "Subfamily",
    "subfamilia_authority": "Subfamily authority",
    "binomial": "Binomial name",
    "subdivision": "Subdivisions",
    "altname": "Other names",
    "time_zone_dst": "Time zone in summer (DST)",
    "utc_offset_dst": "UTC offset in summer (DST)",
    "timezone": "Time zone",
    "cctld": "Internet TLD",
    "drives_on": "Drives on the",
    "spouse": "Spouse(s)",
    "spouses": "Spouse(s)",
    "field": "Fields",
    "workplaces": "Institutions",
    "work_institutions": "Institutions",
    "prizes": "Awards",
    "notableworks": "Notable works",
    "serviceyears": "Years of service",
    "placeofburial": "Buried",
    "restingplace": "Resting place",
    "turnedpro": "Turned pro",
    "careerprizemoney": "Prize money",
    "singlesrecord": "Singles record",
    "singlestitles": "Singles titles",
    "doublesrecord": "Doubles record",
    "doublestitles": "Doubles titles",
    "highestsinglesranking": "Highest singles ranking",
    "highestdoublesranking": "Highest doubles ranking",
    "australianopenresult": "Australian Open result",
    "frenchopenresult": "French Open result",
    "wimbledonresult": "Wimbledon result",
    "usopenresult": "US Open result",
    "frenchopendoublesresult": "French Open doubles result",
    "usopendoublesresult": "US Open doubles result",
    "masterscupresult": "Masters Cup result",
    "grandslamcupresult": "Grand Slam Cup result",
    "daviscupresult": "Davis Cup result",
    "namedafter": "Named after",
    "vicepresident": "Vice President",
    "labor": "Labor force",
    "famous_pract": "Famous practitioners",
    "most_champs": "Most championships",
    "satcat": "SATCAT number",
}
ABBREVIATIONS = re.compile(
    r"\b(cospar id|gdp|hdi|ppp|isbn|issn|fdi|eva|evas|utc|dst|uk|usa|tv|dvd|id)\b", re.IGNORECASE
)
_LABEL_OF = {key.replace("_", ""): label for key, label in LABELS.items()}


def readable_label(key: str) -> str:
    """``birth_date`` -> "Birth date", ``LargestCity`` -> "Largest city"; a trailing number goes."""
    known = _LABEL_OF.get(key.lower().replace("_", ""))
    if known is not None:
        return known
    words = (
        re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", " ", re.sub(r"(?<=[A-Za-z])_?\d+$", "", key))
        .replace("_", " ")
        .strip()
        .lower()
    )
    words = ABBREVIATIONS.sub(lambda match: match.group().upper(), words)
    return words[:1].upper() + words[1:]
