// SPDX-License-Identifier: Apache-2.0

// Package build has short functions that return rules, matches and verdicts of package ruleset.
//
// # Usage
//
//	tcp := build.Equals(ruleset.L4Proto, ruleset.Byte(6))
//	rule := build.When(build.Drop(), tcp, build.InSet("blocked", ruleset.IPSaddr))
//
// # Concurrency
//
// All functions are pure.
//
// # Errors
//
// There are none: ruleset.Table.Validate checks the rules.
package build
