"""What a message without a traceback says of samples: the nouns of data sets, loaders, images, sounds and tables.

Where frames are known they decide: a network that is given an image of another size has a fault of its own. Of a line alone the
nouns are all there is.
"""

from __future__ import annotations

import re

_NOUNS = re.compile(
    r"(?i)\bdata ?sets?\b|\w[Dd]atasets?\b|\bdata ?(?:files?|loaders?)\b|\bdata_files\b|\bcollat\w+|\bbatch_sampler\b|\bnum_workers\b|\bprefetch_factor\b"
    r"|(?<!number of )\bsamples?\b(?! (?:rates?|sizes?|weights?|style|as )|`)|\bannotations?\b|\bmanifests?\b|\bcorp(?:us|ora)\b|\bcaptions?\b|\btraining examples?\b"
    r"|\bimages?\b(?! ?(?:sizes?|height|width|tokens?|embed\w*|encoder|processor|features?|boundary|rank))|\bbounding box(?:es)?\b|\bkeypoints?\b|\bcrop\b"
    r"|\b(?:audio|video)s?\b(?! ?(?:tokens?|embed\w*|encoder|processor|features?))|\bsampl(?:e|ing)[ _]rates?\b|\bfps\b"
    r"|\b(?:csv|tsv|jsonl|parquet|tfrecords?|webdataset)\b|\bheader fields?\b|\bcolumns? (?:mismatch|names?|length)|\bconversations?\b|\bsplits?: \['|\bdownload=True\b"
    r"|\bshard (?:files?|states?|sizes?|is)\b|\bedge_index\b|\btext_pair\b|\bpretokenized\b|\btar archives?\b|\blist of batch\b|\bclass labels?\b|\bmedia files?\b"
    r"|\bresize storage that is not resizable|\bTextEncodeInput\b|\btoo many dimensions 'str'"
)
_OF_OTHERS = re.compile(
    r"(?i)\bresum\w+|\bcheckpoint|\bstate(?:_dict)?\b(?<!shard state)|__\w+__|\bimplements?\b|\bruntime_env\b"
    r"|\.(?:sif|sqsh|simg)\b|\b(?:docker|podman|singularity|apptainer|enroot|pyxis)\b"
)
"""What was saved of a loader is a checkpoint's, what a class of one's own lacks the program's, and an image of a container no sample."""
_FIELD = re.compile(
    r"['\"](?:image(?:s|_id|_path|_file|_name)?|img(?:_path|_name|_id)?|file_?(?:name|path)|path|audio(?:_path|_filepath)?|video(?:_path)?|caption|bbox(?:es)?|annotations?|categor(?:y|ies)|category_id"
    r"|segmentation|duration|transcript(?:ion)?|sentence|text|question|answers?|instruction|prompt|chosen|rejected|conversations?|messages|content)['\"]"
)
"""What a record of a data set has as a field."""


def names_samples(message: str) -> bool:
    """Return whether a message speaks of samples, or of what fetches them."""
    return _NOUNS.search(message) is not None and _OF_OTHERS.search(message) is None


def is_field(key: str) -> bool:
    """Return whether a key, in its quotes, is one that records of data sets have."""
    return _FIELD.fullmatch(key) is not None
