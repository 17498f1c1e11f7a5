"""Ends that a shell tells in another language than English."""

from __future__ import annotations

from pathlib import Path

import pytest

from preflight.investigate.diagnose import diagnose
from preflight.source.logs.endings import ends
from preflight.vocabulary.log import Who

_OF_SCRIPTS = {
    "./run.sh: 第 12 行：41231 已杀死                  python train.py": -9,
    "./scripts/train.sh: 行 8: 32488 段错误                  (吐核)python ./scripts/train.py": -11,
    "./run.sh: 第 12 列：41231 強制結束                    python train.py": -9,
    "./run.sh: 12 行: 41231 中止                      (コアダンプ) python train.py": -6,
    "./run.sh: 줄 12: 41231 버스 오류                   (코어 덤프됨) python train.py": -7,
    "./run.sh: Zeile 12: 41231 Abgebrochen             (Speicherabzug geschrieben) python train.py": -6,
    "./run.sh : ligne 12 : 41231 Processus arrêté        python train.py": -9,
    "./run.sh: línea 12: 41231 Terminado (killed)      python train.py": -9,
    "./run.sh: línea 12: 41231 Terminado               python train.py": -15,
    "./run.sh, linha 12: 41231 Morto                   python train.py": -9,
    "./run.sh: riga 12: 41231 Ucciso                  python train.py": -9,
    "./run.sh: строка 12: 41231 Ошибка шины             (образ памяти сброшен на диск) python train.py": -7,
    "./run.sh: linia 12: 41231 Unicestwiony            python train.py": -9,
    "./run.sh: satır 12: 41231 Süreç durduruldu        python train.py": -9,
    "./run.sh: рядок 12: 41231 Вбито                   python train.py": -9,
}
_OF_TERMINALS = {
    "已杀死": -9,
    "段错误 (核心已转储)": -11,
    "죽었음": -9,
    "Errore di bus (core dump creato)": -7,
    "Abgebrochen (Speicherabzug geschrieben)": -6,
    "Abgebrochen": -6,
    "已放弃": -6,
    " 21%|██        | 23/110 [00:50<02:56,  2.02s/it]Ucciso": -9,
}
_OF_NOBODY = [
    "Beendet",  # a program that is done says so as well
    "Terminado",
    "Abandon",
    "中止",
    "Epoch 12: 41231 Terminado",
    "Das Programm wurde Beendet  und aufgeräumt",
    "der Prozess wurde Getötet und neu gestartet",
]


@pytest.mark.parametrize("line", _OF_SCRIPTS)
def test_a_script_tells_the_process_and_what_it_died_of(line: str) -> None:
    end = ends(line)
    assert end is not None
    pid = int(next(part for part in line.replace("：", " ").split() if part in ("41231", "32488")))
    assert (end.about, end.code, end.teller) == ((Who(pid=pid),), _OF_SCRIPTS[line], "shell")


@pytest.mark.parametrize("line", _OF_TERMINALS)
def test_a_terminal_tells_what_its_program_died_of(line: str) -> None:
    end = ends(line)
    assert (end.code if end is not None else None) == _OF_TERMINALS[line]


@pytest.mark.parametrize("line", _OF_NOBODY)
def test_words_that_programs_say_themselves_are_no_ends(line: str) -> None:
    assert ends(line) is None


@pytest.mark.parametrize(
    ("line", "category"),
    [("./run.sh: riga 12: 41231 Ucciso                  python train.py", "oom"), ("Beendet", "none")],
)
def test_a_run_that_ended_so_is_not_called_well(tmp_path: Path, line: str, category: str) -> None:
    steps = "".join(f"step {step} loss {4 / (step + 2):.4f}\n" for step in range(60))
    (tmp_path / "run.log").write_text(f"{steps}{line}\n", encoding="utf-8")
    incident = diagnose(tmp_path).incident
    assert incident is not None
    assert incident.category == category
