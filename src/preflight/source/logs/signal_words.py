"""Reads how a process ended out of a shell's line in another language than English.

The C library translates the names of signals, and bash the words around them: where the line is all that tells of an end, nothing
but these words says that the run failed.
"""

from __future__ import annotations

import re

_WORDS: dict[int, tuple[str, ...]] = {
    9: (
        "已杀死", "強制結束", "強制終了", "죽었음", "Getötet", "Processus arrêté", "Terminado (killed)", "Morto", "Ucciso",
        "Убито", "Unicestwiony", "Süreç durduruldu", "Вбито",
    ),
    11: (
        "段错误", "程式記憶體區段錯誤", "세그멘테이션 오류", "Speicherzugriffsfehler", "Erreur de segmentation",
        "Violación de segmento", "Falha de segmentação", "Errore di segmentazione", "Ошибка сегментирования",
        "Naruszenie ochrony pamięci", "Parçalama arızası", "Помилка адресування",
    ),
    7: (
        "总线错误", "匯流排錯誤", "バスエラー", "버스 오류", "Bus-Zugriffsfehler", "Erreur du bus", "Error del bus",
        "Erro no barramento", "Errore di bus", "Ошибка шины", "Błąd szyny", "Veri yolu hatası", "Помилка каналу обміну даними",
    ),
    6: (
        "已放弃", "中止", "중지됨", "Abgebrochen", "Abandon", "Abortado", "Annullato", "Аварийный останов", "Przerwane",
        "İptal edildi", "Перервано",
    ),
    15: (
        "已终止", "終止", "종료됨", "Beendet", "Complété", "Terminado", "Terminato", "Завершено", "Zakończony", "Sonlandırıldı",
        "Припинено",
    ),
}  # fmt: skip
_ALONE = (7, 9, 11)
"""Signals whose names alone in a line say so; the others are what programs say as well that are done, or break something off."""
_ABORTED_ALONE = ("已放弃", "Abgebrochen", "Abortado", "Аварийный останов")
"""Of the words for an abort those that no program prints alone in a line that went on, as ``Aborted`` in English."""
_CORES = (
    "核心已转储", "吐核", "核心已傾印", "コアダンプ", "코어 덤프됨", "Speicherabzug geschrieben", "core dumped", "`core' generado",
    "imagem do núcleo gravada", "core dump creato", "образ памяти сброшен на диск", "стек памяти сброшен на диск",
    "zrzut pamięci", "çekirdek döküldü", "збережено знімок оперативної пам’яті",
)  # fmt: skip
"""How bash says that the memory of a process was written down as it died."""
LITERALS = tuple(word.encode() for words in _WORDS.values() for word in words)
"""A line that tells of such an end holds one of these."""
_NUMBERS = {word: number for number, words in _WORDS.items() for word in words}


def _any(words: tuple[str, ...]) -> str:
    """Return an expression for any of some words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_CORE = rf"[(（](?:{_any(_CORES)})[)）]"
_BAR = r"(?:.*(?:it/s|s/it|B/s)[^\]]{0,40}\])?"
_OF_A_SCRIPT = re.compile(
    rf"(?:^|\D)\d{{1,6}}\s?[^\d\s]{{0,2}}\s?[:：]\s{{0,4}}(?P<pid>\d{{1,10}}) (?P<word>{_any(tuple(_NUMBERS))})(?:\s*{_CORE}|(?= {{2,}}\S))"
    rf"|\S[:：] \S{{2,8}} \d{{1,6}}: {{1,4}}(?P<own>\d{{1,10}}) (?P<other>{_any(tuple(_NUMBERS))})(?:\s*{_CORE}|(?= {{2,}}\S))"
)
"""Of a script bash tells its name, the line, the process, what it died of, and its command: the line before or behind its number."""
_OF_A_TERMINAL = re.compile(
    rf"^{_BAR}\s*(?:(?P<word>{_any(tuple(word for number in _ALONE for word in _WORDS[number]))})\s*(?:{_CORE})?"
    rf"|(?P<dumped>{_any(_WORDS[6])})\s*{_CORE}|(?P<aborted>{_any(_ABORTED_ALONE)}))\s*$"
)


def told(text: str) -> tuple[int | None, int] | None:
    """Return the process and the signal that it died of; None where no line of a shell tells of one."""
    found = _OF_A_SCRIPT.search(text)
    if found is not None:
        return int(found["pid"] or found["own"]), _NUMBERS[found["word"] or found["other"]]
    found = _OF_A_TERMINAL.match(text)
    return (None, _NUMBERS[found["word"] or found["dumped"] or found["aborted"]]) if found is not None else None
