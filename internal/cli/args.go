package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/tree"
)

// noSubcommand refuses whatever follows a command that only holds others. Cobra by itself would print the help
// and call it a success.
func noSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // letters; cobra sets it for the root alone
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return usage(cmd, "unknown command %q, did you mean %q?", args[0], strings.Join(near, `" or "`))
	}
	return usage(cmd, "unknown command %q", args[0])
}

// operands demands exactly the named positional arguments.
func operands(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage(cmd, "%s is missing", names[len(args)])
		case len(args) > len(names):
			return usage(cmd, "unexpected argument %q", args[len(names)])
		}
		return nil
	}
}

// parseID reads a job's id.
func parseID(cmd *cobra.Command, text string) (tree.ID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || err == nil && id < 1:
		return 0, usage(cmd, "%s is no job id: ids start at 1", text)
	case err != nil:
		return 0, usage(cmd, "%q is no job id: it is a number, as in %q", text, "coppice tree list")
	}
	return tree.ID(id), nil
}
