"""Small repositories with a failing behaviour, to be found and mended with the tools of a programmer."""
