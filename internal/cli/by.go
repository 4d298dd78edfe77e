package cli

import (
	"os"
	"os/user"

	"github.com/spf13/cobra"

	"github.com/coppicehq/coppice/store"
	"github.com/coppicehq/coppice/tree"
)

// byFlags gives a command that changes something its --actor and --reason, for the audit.
func byFlags(cmd *cobra.Command, by *store.By) {
	cmd.Flags().StringVar(&by.Actor, "actor", whoAmI(), "who does this, for the audit")
	cmd.Flags().StringVar(&by.Reason, "reason", "", "why, for the audit")
}

// whoAmI is user@host.
func whoAmI() string {
	name := "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil && host != "" {
		name += "@" + host
	}
	return tree.CleanText(name, store.MaxActorBytes)
}
