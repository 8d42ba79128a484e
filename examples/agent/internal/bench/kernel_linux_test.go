// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"net/netip"
	"os/exec"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
)

// kernel is what the sets of the table hold, by their listing: of each address the names of the sets that have it.
type kernel map[netip.Addr][]string

var (
	setLine = regexp.MustCompile(`^\s*set (\S+) {`)
	ip      = regexp.MustCompile(`\b\d+\.\d+\.\d+\.\d+\b`)
	line    = regexp.MustCompile(`[^\n]+`)
)

// list reads the kernel with nft, so that a figure is not believed on the agent's word.
func list(tb testing.TB, ns *netns.NS) kernel {
	tb.Helper()
	path, err := exec.LookPath("/usr/sbin/nft") // not in everybody's PATH
	if err != nil {
		path = "nft"
	}
	var out []byte
	require.NoError(tb, ns.Do(func() (err error) {
		out, err = exec.Command(path, "list", "sets", "table", "inet", "wayleave").Output()
		return err
	}))
	k, name := kernel{}, ""
	for _, l := range line.FindAll(out, -1) {
		if found := setLine.FindSubmatch(l); found != nil {
			name = string(found[1])
		}
		for _, text := range ip.FindAll(l, -1) {
			a, err := netip.ParseAddr(string(text))
			require.NoError(tb, err)
			k[a] = append(k[a], name)
		}
	}
	return k
}

// requireAll fails unless each remote endpoint is in a set of the kernel, and nothing more was programmed than was waited for: a
// figure would else be of an earlier batch.
func requireAll(tb testing.TB, ns *netns.NS, r *running, s scale) {
	tb.Helper()
	requireSets(tb, ns, s)
	require.Empty(tb, r.states)
}

// requireSets fails unless each remote endpoint is in a set of the kernel.
func requireSets(tb testing.TB, ns *netns.NS, s scale) {
	tb.Helper()
	k := list(tb, ns)
	for i := locals; i < s.endpoints; i++ {
		if a := endpoint(i, 0).Addresses[0]; len(k[a]) == 0 {
			tb.Fatalf("%s is in no set", a)
		}
	}
}

// requireRole fails unless the endpoint that changes is in the sets of the role, and in no others.
func requireRole(tb testing.TB, ns *netns.NS, r *running, role int) {
	tb.Helper()
	k := list(tb, ns)
	like := endpoint(locals+roles+role, role).Addresses[0]
	require.NotEmpty(tb, k[like])
	require.Equal(tb, k[like], k[endpoint(locals, role).Addresses[0]])
	require.Empty(tb, r.states)
}
