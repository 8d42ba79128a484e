// SPDX-License-Identifier: Apache-2.0

package worldtext

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/wayleave/wayleave/policy"
)

// Node is the node of what does not name one.
const Node = "n1"

// Parse returns the updates of a text, in order, and whether it has the line "insync". Empty lines
// and those that begin with # count for nothing.
//
// Errors: the first line that is not understood.
func Parse(text string) (updates []policy.Update, synced bool, err error) {
	for n, line := range strings.Split(text, "\n") {
		words := split(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		switch {
		case words[0] == "insync":
			synced = true
		case len(words) < 2:
			err = errors.New("too short")
		case line[0] == ' ' && len(updates) == 0:
			err = errors.New("a rule of nothing")
		case line[0] == ' ':
			err = parseRule(updates[len(updates)-1].Resource, words)
		default:
			var u policy.Update
			u, err = parseObject(words)
			updates = append(updates, u)
		}
		if err != nil {
			return nil, false, fmt.Errorf("worldtext: line %d: %s: %w", n+1, line, err)
		}
	}
	return updates, synced, nil
}

// Latest returns the last update of each object, in the order in which the objects first came.
func Latest(updates []policy.Update) []policy.Update {
	var out []policy.Update
	place := map[policy.Key]int{}
	for _, u := range updates {
		i, ok := place[u.Key]
		if !ok {
			place[u.Key] = len(out)
			out = append(out, u)
			continue
		}
		out[i] = u
	}
	return out
}

// Deletions returns a deletion of every object, in the order in which they first came.
func Deletions(updates []policy.Update) []policy.Update {
	out := Latest(updates)
	for i := range out {
		out[i].Resource = nil
	}
	return out
}

// Reversed returns the updates from the last to the first.
func Reversed(updates []policy.Update) []policy.Update {
	out := slices.Clone(updates)
	slices.Reverse(out)
	return out
}

// split returns the words of a line; what stands in backquotes is one word.
func split(line string) []string {
	quoted := false
	words := strings.FieldsFunc(line, func(r rune) bool {
		if r == '`' {
			quoted = !quoted
			return true
		}
		return !quoted && unicode.IsSpace(r)
	})
	return words
}
