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

// Node is the default node of objects.
const Node = "n1"

// Parse returns the updates of a text, in the order of its lines. synced is set if the text has the
// line "insync". Parse ignores empty lines and lines that begin with #. The error is that of the
// first line that cannot be parsed.
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
			err = errors.New("a rule without an object")
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

// Latest returns the last update of each object. The result is in the order of the objects' first
// updates.
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

// Deletions returns one deletion for each object that has an update. The result has the order of
// Latest.
func Deletions(updates []policy.Update) []policy.Update {
	out := Latest(updates)
	for i := range out {
		out[i].Resource = nil
	}
	return out
}

// Reversed returns the updates in reverse order.
func Reversed(updates []policy.Update) []policy.Update {
	out := slices.Clone(updates)
	slices.Reverse(out)
	return out
}

// split returns the words of a line. Text in backquotes is one word.
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
