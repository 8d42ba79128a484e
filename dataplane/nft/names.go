// SPDX-License-Identifier: Apache-2.0

package nft

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

// maxName is the longest name that is made of the object's own; a longer one is cut and hashed.
const maxName = 128

// direction is the side of an endpoint that a list of rules is for.
type direction string

const (
	ingress direction = "ingress"
	egress  direction = "egress"
)

// objectName makes the name of a chain: readable where the parts allow it ("pol-egress/shop/allow-web"), and
// distinct for distinct parts in any case. Parts that nft would not take, or that are too long, are cleaned and
// carry a hash after a double slash, which no readable name contains.
func objectName(prefix string, parts ...string) string {
	name := prefix + "/" + strings.Join(parts, "/")
	plain := len(name) <= maxName
	for _, p := range parts {
		plain = plain && p != "" && clean(p) == p
	}
	if plain {
		return name
	}
	const room = 64
	readable := clean(strings.Join(parts, "_"))
	readable = readable[:min(len(readable), room)]
	return prefix + "//" + readable + "-" + hash(parts...)
}

// keyName makes the name of a chain that belongs to an object of the usual kind.
func keyName(prefix string, k policy.Key, rest ...string) string {
	parts := []string{k.Name}
	if k.Namespace != "" {
		parts = []string{k.Namespace, k.Name}
	}
	return objectName(prefix, append(parts, rest...)...)
}

// setName makes the name of a set of the kernel: of addresses "s4-ID", of prefixes "n4-ID", of ports "p4-ID", and of the backends
// of a service "v4-ID", which of the two they are.
func setName(id dataplane.IPSetID, kind partKind, f family) string {
	letter, of := "s", "s:"
	switch {
	case kind == partNets:
		letter = "n"
	case strings.HasPrefix(string(id), "v:"): // the id of a service tells the types apart itself
		letter, of = "v", "v:"
	case kind == partPorts:
		letter, of = "p", "p:"
	}
	prefix := letter + strconv.Itoa(int(f))
	body, ok := strings.CutPrefix(string(id), of)
	if name := prefix + "-" + body; ok && body != "" && clean(body) == body && len(name) <= maxName {
		return name
	}
	return objectName(prefix, string(id), "set") // two parts with a slash: no name from above has one
}

// hash returns 26 characters that stand for the parts.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:16]))
}

// clean replaces whatever may not stand inside one part of a name.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		default:
			return '_'
		}
	}, s)
}

// notQuotable reports whether the character may not stand in a quoted string that nft reads.
func notQuotable(r rune) bool {
	return r < ' ' || r > '~' || r == '"' || r == '\\' || r == '$'
}

// quotable makes text that nft can read back, of at most n bytes.
func quotable(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if notQuotable(r) {
			return '_'
		}
		return r
	}, s)
	return s[:min(len(s), n)]
}

// comment makes a rule's comment out of its id.
func comment(id string) string { return quotable(id, ruleset.MaxComment) }
