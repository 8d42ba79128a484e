// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"net/netip"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns"
)

// kernel is the class of each address, as the kernel's map has it: which of the selectors of policy
// select it.
type kernel map[netip.Addr]string

// classOf is an element of the map, as nft lists it.
var classOf = regexp.MustCompile(`\b(\d+\.\d+\.\d+\.\d+) : ([0-9a-f]*:[0-9a-f]*)`)

// list reads the kernel's map with nft, so that a figure does not depend on the agent's own report.
func list(tb testing.TB, ns *netns.NS) kernel {
	tb.Helper()
	path, err := exec.LookPath("/usr/sbin/nft") // not in everybody's PATH
	if err != nil {
		path = "nft"
	}
	var out, said bytes.Buffer
	err = ns.Do(func() error {
		nft := exec.Command(path, "list", "map", "inet", "wayleave", "class4")
		nft.Stdout, nft.Stderr = &out, &said
		return nft.Run()
	})
	require.NoError(tb, err, "%s", &said)
	k := kernel{}
	for _, found := range classOf.FindAllSubmatch(out.Bytes(), -1) {
		a, err := netip.ParseAddr(string(found[1]))
		require.NoError(tb, err)
		k[a] = string(found[2])
	}
	return k
}

// requireAll fails unless each remote endpoint is in a class, and nothing more was programmed than
// was waited for. If more was programmed, a figure would be of an earlier batch.
func requireAll(tb testing.TB, ns *netns.NS, r *running, s scale) {
	tb.Helper()
	requireClasses(tb, ns, s)
	require.Empty(tb, r.states)
}

// requireClasses fails unless the kernel has a class for each remote endpoint. After a map has
// grown, the kernel moves its elements to a larger table. Meanwhile, a listing of the map lacks
// some elements. Look-ups find all elements.
func requireClasses(tb testing.TB, ns *netns.NS, s scale) {
	tb.Helper()
	for deadline := time.Now().Add(waitTimeout); ; {
		k := list(tb, ns)
		i := locals
		for i < s.endpoints && k[endpoint(i, 0).Addresses[0]] != "" {
			i++
		}
		if i == s.endpoints {
			return
		}
		require.True(tb, time.Now().Before(deadline), "%s is in no class; %d addresses are",
			endpoint(i, 0).Addresses[0], len(k))
	}
}

// requireRole fails unless the endpoint that changes is in the class of the role.
func requireRole(tb testing.TB, ns *netns.NS, r *running, role int) {
	tb.Helper()
	k := list(tb, ns)
	like := endpoint(locals+roles+role, role).Addresses[0]
	require.NotEmpty(tb, k[like])
	require.Equal(tb, k[like], k[endpoint(locals, role).Addresses[0]])
	require.Empty(tb, r.states)
}
