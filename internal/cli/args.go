package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/coppicehq/coppice/tree"
)

// noSubcommand refuses whatever follows a command that only holds others. Cobra by itself would print the help
// and call it a success.
func noSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// In letters. Of three, two that differ are another word.
	cmd.SuggestionsMinimumDistance = min(2, len(args[0])/2)
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

// checkCobras makes the commands that cobra adds by itself refuse what they do not know: by themselves they print a
// help and call it a success.
func checkCobras(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err != nil {
					return usage(root, "%v", err)
				}
				return noSubcommand(of, rest)
			}
		case "completion":
			c.Args, c.RunE = noSubcommand, showHelp
		}
	}
}

// wrongFlag says what is wrong with a flag, without the jargon of the functions that read its value.
func wrongFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return usage(cmd, "%v", err)
	}
	flag := invalid.GetFlag()
	wants, ok := map[string]string{
		"int": "a whole number", "int64": "a whole number", "duration": "a time, as in 10s or 1h30m",
	}[flag.Value.Type()]
	switch {
	case errors.Is(err, strconv.ErrRange):
		return usage(cmd, "--%s: %s is too large", flag.Name, invalid.GetValue())
	case ok:
		return usage(cmd, "--%s: %q is not %s", flag.Name, invalid.GetValue(), wants)
	}
	return usage(cmd, "%v", err)
}

// parseID reads a job's id.
func parseID(cmd *cobra.Command, text string) (tree.ID, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, usage(cmd, "%s is no job id: it is too large", text)
	case err == nil && id < 1:
		return 0, usage(cmd, "%s is no job id: ids start at 1", text)
	case err != nil:
		return 0, usage(cmd, "%q is no job id: it is a number, as in %q", text, "coppice tree list")
	}
	return tree.ID(id), nil
}
