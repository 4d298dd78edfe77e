package cli

import (
	"context"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// App is what a command knows of the world around it. Tests make their own.
type App struct {
	In  io.Reader // answers to questions
	Out io.Writer // answers
	Err io.Writer // errors, questions and progress

	// Env looks up an environment variable. The answer is empty for one that is not set.
	Env func(name string) string

	InTerminal  bool // a person can answer
	OutTerminal bool // a person watches: colours, and drawings that are redrawn
	ErrTerminal bool // a person watches

	// Size is how many columns and lines the terminal has; zeros for no limit. It is asked for every time
	// something is drawn, since windows change.
	Size func() (columns, lines int)

	// After is time.After, for commands that look again and again.
	After func(time.Duration) <-chan time.Time
}

// System returns the App of this process.
func System() *App {
	return &App{
		In:          os.Stdin,
		Out:         os.Stdout,
		Err:         os.Stderr,
		Env:         os.Getenv,
		InTerminal:  isTerminal(os.Stdin),
		OutTerminal: isTerminal(os.Stdout),
		ErrTerminal: isTerminal(os.Stderr),
		Size:        func() (int, int) { return sizeOf(os.Stdout) },
		After:       time.After,
	}
}

// Run runs the command that args name, and returns the exit code. Errors have been printed by then.
func (a *App) Run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	return a.report(root.ExecuteContext(ctx))
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func sizeOf(f *os.File) (columns, lines int) {
	columns, lines, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0 // not a terminal
	}
	return columns, lines
}

// width is the terminal's; zero when the output does not go to one.
func (a *App) width() int {
	columns, _ := a.size()
	return columns
}

// height is the terminal's; zero when the output does not go to one.
func (a *App) height() int {
	_, lines := a.size()
	return lines
}

func (a *App) size() (columns, lines int) {
	if !a.OutTerminal || a.Size == nil {
		return 0, 0
	}
	return a.Size()
}
