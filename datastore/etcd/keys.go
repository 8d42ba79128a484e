// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// The parts of a cluster's key space, below "<prefix>/<cluster>/".
const (
	partState     = "state/"     // state/<Kind>/<namespace>/<name>, and the mark
	partSettings  = "settings/"  // settings/global and settings/node/<node>
	partOwners    = "owners/"    // owners/<owner>/<Kind>/<namespace>/<name>, without a value
	partAgents    = "agents/"    // agents/<node>, under a lease
	partEndpoints = "endpoints/" // endpoints/<node>/<Kind>/<namespace>/<name>, under a lease

	// mark is the key that Init makes. It sorts before every kind, so that in a list, and in the
	// events of one revision, it comes first.
	mark = partState + ".cluster"
	// barrier is the key that Barrier writes. It says nothing but that it was written, and comes
	// after the mark.
	barrier = partState + ".sync"
)

// isObject reports whether a key below partState is, or should be, that of an object.
func isObject(rel string) bool { return rel != mark && rel != barrier }

// path writes a key's own part, "<Kind>/<namespace>/<name>", with an empty namespace for a global
// object. A name may have slashes (that of a block has), the others never do.
func path(k policy.Key) string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// parsePath reads what path wrote. The strings of the result share the memory of s. A kind that is
// not known is ErrNewer, and the key is returned nonetheless.
func parsePath(s string) (policy.Key, error) {
	kind, rest, ok := strings.Cut(s, "/")
	namespace, name, ok2 := strings.Cut(rest, "/")
	switch {
	case !ok || !ok2 || name == "":
		return policy.Key{}, errors.New("not of the form <Kind>/<namespace>/<name>")
	}
	key := policy.Key{Kind: policy.Kind(kind), Namespace: namespace, Name: name}
	if !slices.Contains(policy.Kinds(), key.Kind) {
		return key, fmt.Errorf("%w: unknown kind %q", ErrNewer, kind)
	}
	return key, nil
}

// checkKey refuses a key that could not be read back or would reach into another's keys.
func checkKey(k policy.Key) error {
	if k.Name == "" || strings.Contains(k.Namespace, "/") ||
		strings.Contains(k.Name, "/") && k.Kind != policy.KindBlock {
		return fmt.Errorf("etcd: %s: not a key", k)
	}
	if !slices.Contains(policy.Kinds(), k.Kind) {
		return fmt.Errorf("etcd: %s: no such kind", k)
	}
	return nil
}

// checkSegment refuses a name that cannot be one segment of a key.
func checkSegment(what, name string) error {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_.:@+~", r))
	}
	if name == "" || len(name) > 265 || strings.ContainsFunc(name, bad) {
		return fmt.Errorf("etcd: %s: want 1 to 265 letters, digits and -_.:@+~, not %q", what, name)
	}
	return nil
}
