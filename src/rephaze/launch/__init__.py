"""Plans and chips in other tools' words: launch settings, traces, architecture files. Nothing is computed here."""
