"""What the widgets show, as HTML and CSS alone: a function of one or two snapshots."""
