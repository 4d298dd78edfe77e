package cli

import (
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/coppicehq/coppice/tree"
)

// Colours by what they mean.
const (
	red    = text.FgRed
	green  = text.FgGreen
	yellow = text.FgYellow
	blue   = text.FgBlue
	faint  = text.Faint
)

// paint colours words for a terminal, and leaves them alone for files, pipes and people who set NO_COLOR.
func (a *App) paint(terminal bool, c text.Color, words string) string {
	if !a.colourful(terminal) {
		return words
	}
	return c.Sprint(words)
}

func (a *App) colourful(terminal bool) bool {
	return terminal && a.Env("NO_COLOR") == "" && a.Env("TERM") != "dumb"
}

// stateColor is the colour of a state, the same everywhere. Stalled, which is no state but looks like
// one in lists, has the colour of what it calls for.
func stateColor(s tree.State) text.Color {
	switch s {
	case tree.Dead, stalled:
		return red
	case tree.Running:
		return blue
	case tree.Completed:
		return green
	case tree.Ready, tree.Scheduled:
		return yellow
	}
	return faint
}

// stalled is how lists name a finalizer that a dead child holds up.
const stalled = tree.State("stalled")

func (a *App) state(s tree.State) string { return a.paint(a.OutTerminal, stateColor(s), string(s)) }
