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
		Size:        func() (int, int) { return sizeOf(os.Stdout, os.Stderr) },
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
	checkCobras(root) // which write to where root does by now
	err := root.ExecuteContext(ctx)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err() // whatever broke off, such as a connection in the middle of a query, did so because of it
	}
	return a.report(err)
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// sizeOf returns the size of the first of the files that is a terminal; zeros if none is.
func sizeOf(files ...*os.File) (columns, lines int) {
	for _, f := range files {
		if columns, lines, err := term.GetSize(int(f.Fd())); err == nil {
			return columns, lines
		}
	}
	return 0, 0
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

// columns is the width for what goes to stderr; zero when that is no terminal.
func (a *App) columns() int {
	if !a.ErrTerminal || a.Size == nil {
		return 0
	}
	columns, _ := a.Size()
	return columns
}

func (a *App) size() (columns, lines int) {
	if !a.OutTerminal || a.Size == nil {
		return 0, 0
	}
	return a.Size()
}
