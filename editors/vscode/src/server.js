// How the language server is started. Nothing here needs the editor, so that it can be tested without one.
'use strict';

const path = require('node:path');

/**
 * The words of the command line that starts the server.
 *
 * @param {{command?: string[], gpu?: string, gpus?: number | null, launch?: string, persona?: string}} settings
 * @param {string | undefined} python The interpreter that the Python extension has selected.
 * @param {(file: string) => boolean} exists Whether a file is there.
 * @param {string} platform As in `process.platform`.
 * @returns {{command: string, args: string[]}}
 */
function commandLine(settings, python, exists, platform = process.platform) {
  const given = (settings.command ?? []).filter((word) => word !== '');
  const [program, ...words] = given.length > 0 ? given : [beside(python, exists, platform) ?? 'preflight'];
  // The client adds --stdio by itself.
  const args = [...words, 'lsp'];
  for (const name of ['gpu', 'gpus', 'launch', 'persona']) {
    const value = settings[name];
    if (value !== undefined && value !== null && value !== '') {
      args.push(`--${name}`, String(value));
    }
  }
  return { command: program, args };
}

/** The `preflight` that was installed with an interpreter, or undefined. */
function beside(python, exists, platform) {
  if (!python) {
    return undefined;
  }
  const windows = platform === 'win32';
  const file = (windows ? path.win32 : path.posix).join(
    (windows ? path.win32 : path.posix).dirname(python), windows ? 'preflight.exe' : 'preflight');
  return exists(file) ? file : undefined;
}

/** What to tell a person when the server does not start. */
function notStarted(command, error) {
  const missing = /ENOENT/.test(String(error));
  return missing
    ? `Preflight is not installed as '${command}': pip install 'preflight-torch[lsp]', or set preflight.command.`
    : `Preflight's server (${command}) did not start: ${error}`;
}

module.exports = { commandLine, notStarted };
