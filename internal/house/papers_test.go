package house_test

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryDependencyHasItsReason(t *testing.T) {
	t.Parallel()
	edit := exec.CommandContext(t.Context(), "go", "mod", "edit", "-json")
	edit.Dir = root(t)
	out, err := edit.Output()
	require.NoError(t, err)
	var mod struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal(out, &mod))
	var direct []string
	for _, r := range mod.Require {
		if !r.Indirect {
			direct = append(direct, r.Path)
		}
	}

	var written []string
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` +\\| *[^ |][^|]*\\| *[^ |][^|]*\\|$")
	for _, match := range row.FindAllStringSubmatch(read(t, "docs/dependencies.md"), -1) {
		written = append(written, match[1])
	}
	assert.ElementsMatch(t, direct, written, "the direct requirements of go.mod and the table of docs/dependencies.md")
}

func TestMakeHelpListsEveryTarget(t *testing.T) {
	t.Parallel()
	makefile := read(t, "Makefile")
	phony := regexp.MustCompile(`(?m)^\.PHONY: (.+)$`).FindStringSubmatch(makefile)
	require.NotNil(t, phony)
	targets := regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllStringSubmatch(makefile, -1)
	require.NotEmpty(t, targets)

	help := exec.CommandContext(t.Context(), "make", "--no-print-directory")
	help.Dir = root(t)
	out, err := help.Output()
	require.NoError(t, err, "help is what make does by default")
	for _, target := range targets {
		assert.Regexp(t, `(?m)^`+target[1]+` +[a-z]`, string(out), "make help says what %s does", target[1])
		assert.Regexp(t, `\b`+target[1]+`\b`, phony[1], "%s is no file", target[1])
	}
}

func TestChangelogHasAnUnreleasedSection(t *testing.T) {
	t.Parallel()
	assert.Regexp(t, `(?m)^## \[Unreleased\]$`, read(t, "CHANGELOG.md"))
}

func TestLicenseIsApache2(t *testing.T) {
	t.Parallel()
	text := read(t, "LICENSE")
	assert.Contains(t, text, "Apache License")
	assert.Contains(t, text, "END OF TERMS AND CONDITIONS", "the whole text")
}
