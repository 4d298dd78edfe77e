package cli

import (
	"bufio"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// yesFlag gives a destructive command its --yes.
func yesFlag(cmd *cobra.Command, yes *bool) {
	cmd.Flags().BoolVar(yes, "yes", false, "do not ask")
}

// confirm says what is about to be destroyed and returns nil if that is wanted: by --yes, or by an
// answer on a terminal. Nobody to ask is a wrong command line, not consent.
func (a *App) confirm(cmd *cobra.Command, yes bool, what string) error {
	fmt.Fprintln(a.Err, what)
	if yes {
		return nil
	}
	if !a.InTerminal {
		return usage(cmd, "nobody is here to confirm it: add --yes")
	}
	fmt.Fprint(a.Err, "Go on? [y/N] ")
	answer, err := bufio.NewReader(a.In).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.Err)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return fmt.Errorf("nothing was done")
}
