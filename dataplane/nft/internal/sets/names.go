// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strconv"
	"strings"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/policy"
)

// maxName is the maximum length of a readable name.
const maxName = 128

// ObjectName returns the name of a chain. Usually, the name is the prefix and the parts:
// "pol-egress/shop/allow-web". But this name may be too long, or a part may be empty or have
// characters that nft refuses. Then the name has a double slash after the prefix, and ends with a
// hash of the parts. So different parts have different names.
func ObjectName(prefix string, parts ...string) string {
	name := prefix + "/" + strings.Join(parts, "/")
	plain := len(name) <= maxName
	for _, p := range parts {
		plain = plain && p != "" && Clean(p) == p
	}
	if plain {
		return name
	}
	const room = 64
	readable := Clean(strings.Join(parts, "_"))
	readable = readable[:min(len(readable), room)]
	return prefix + "//" + readable + "-" + Hash(parts...)
}

// KeyName returns the name of a chain that belongs to the object with the key.
func KeyName(prefix string, k policy.Key, rest ...string) string {
	parts := []string{k.Name}
	if k.Namespace != "" {
		parts = []string{k.Namespace, k.Name}
	}
	return ObjectName(prefix, append(parts, rest...)...)
}

// setName returns the name of a kernel set: "s4-ID" for addresses, "n4-ID" for prefixes, "p4-ID"
// for ports, and "v4-ID" for the backends of a service. The ID of a service also identifies the
// kind.
func setName(id dataplane.IPSetID, kind Kind, f Family) string {
	letter, of := "s", "s:"
	switch {
	case kind == Nets:
		letter = "n"
	case strings.HasPrefix(string(id), "v:"): // the id of a service also identifies the type
		letter, of = "v", "v:"
	case kind == Ports:
		letter, of = "p", "p:"
	}
	prefix := letter + strconv.Itoa(int(f))
	body, ok := strings.CutPrefix(string(id), of)
	if name := prefix + "-" + body; ok && body != "" && Clean(body) == body && len(name) <= maxName {
		return name
	}
	return ObjectName(prefix, string(id), "set") // two parts with a slash, which no name from above has
}

// Hash returns a hash of the parts. It has 26 characters.
func Hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:16]))
}

// Clean replaces the characters that must not be part of a name.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		default:
			return '_'
		}
	}, s)
}

// NotQuotable reports whether a quoted string of nft must not contain the character.
func NotQuotable(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '$'
}

// Quotable returns the text in a form that nft can read back, limited to n bytes.
func Quotable(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if NotQuotable(r) {
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), n)]
}

// Comment returns the comment of a rule with the id.
func Comment(id string) string { return Quotable(id, ruleset.MaxComment) }
