// Package house holds the rules of this repository as tests: what a linter cannot
// see, and what should fail on a developer's machine as it does elsewhere. It has
// no code of its own. CONTRIBUTING.md gives the reasons.
package house
