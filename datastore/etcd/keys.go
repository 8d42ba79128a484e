// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wayleave/wayleave/policy"
)

// The parts of a cluster's keys, below "<prefix>/<cluster>/".
const (
	partState     = "state/"     // state/<Kind>/<namespace>/<name>, and the mark
	partSettings  = "settings/"  // settings/global and settings/node/<node>
	partOwners    = "owners/"    // owners/<owner>/<Kind>/<namespace>/<name>, without a value
	partAgents    = "agents/"    // agents/<node>, under a lease
	partEndpoints = "endpoints/" // endpoints/<node>/<Kind>/<namespace>/<name>, under a lease

	// mark is the key that Init creates. It sorts before every kind. So it is first in a list, and
	// among the events of one revision.
	mark = partState + ".cluster"
	// barrier is the key that Barrier writes. Its value has no meaning. It sorts after the mark.
	barrier = partState + ".sync"
)

// isObject reports whether a key below partState is, or should be, that of an object.
func isObject(rel string) bool { return rel != mark && rel != barrier }

// path returns the last part of an object's key, "<Kind>/<namespace>/<name>". The namespace of a
// global object is empty. Only names can have slashes, as those of blocks do.
func path(k policy.Key) string { return string(k.Kind) + "/" + k.Namespace + "/" + k.Name }

// parsePath parses the result of path. The strings of the returned key share the memory of s. If
// the kind is unknown, the error is ErrNewer, and the key is returned, too.
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

// checkKey returns an error for a key that path and parsePath would change, or that would be among
// the keys of other objects.
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

// checkSegment returns an error for a name that cannot be one segment of a key.
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
