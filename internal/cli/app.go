package cli

import (
	"context"
	"io"
	"os"

	"golang.org/x/term"
)

// App is what a command knows of the world around it. Tests make their own.
type App struct {
	In  io.Reader
	Out io.Writer // answers
	Err io.Writer // errors, questions and progress

	// Env looks up an environment variable. The answer is empty for one that is not set.
	Env func(name string) string

	// InTerminal and OutTerminal say whether a person sits at the other end. They decide about questions,
	// about colours and redrawing.
	InTerminal  bool
	OutTerminal bool
	ErrTerminal bool

	// Width is how many columns the terminal has; zero for no limit. It is asked for every time
	// something is drawn, since windows change.
	Width func() int
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
		Width:       func() int { return width(os.Stdout) },
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

func width(f *os.File) int {
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0 // not a terminal
	}
	return columns
}
