package cli

import (
	"encoding/json"

	"github.com/spf13/cobra"
)

// jsonFlag gives a reading command its --json.
func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "answer in JSON")
}

// writeJSON writes v indented. Lists must not be nil: a program that reads them expects [] where there is nothing.
func (a *App) writeJSON(v any) error {
	e := json.NewEncoder(a.Out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // args and errors are shown as they are
	return e.Encode(v)
}

// writeJSONLine writes v in one line, for answers that go on.
func (a *App) writeJSONLine(v any) error {
	e := json.NewEncoder(a.Out)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
