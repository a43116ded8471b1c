"""How a transcript is drawn: blocks to lines, and the scrolling list of them. Pure, no Textual."""
