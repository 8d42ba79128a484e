// SPDX-License-Identifier: Apache-2.0

package late

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/conntrack"
	"github.com/wayleave/wayleave/internal/netns"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

func open(t *testing.T, ns *netns.NS) *Table {
	t.Helper()
	table, err := New(Config{NetNS: ns.FD(), PolicyTable: "wayleave"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, table.Close()) })
	return table
}

// flow is a flow whose replies are from one address and port to another.
func flow(protocol uint8, from, to string) conntrack.Flow {
	reply := conntrack.Tuple{
		Protocol: protocol, Source: netip.MustParseAddrPort(from), Destination: netip.MustParseAddrPort(to),
	}
	original := reply
	original.Source, original.Destination = reply.Destination, netip.MustParseAddrPort("192.0.2.1:99") // a service
	return conntrack.Flow{Original: original, Reply: reply}
}

// elements returns the keys in the kernel's listing of the table, without timeouts.
func elements(t *testing.T, ns *netns.NS) (keys []string) {
	t.Helper()
	for line := range strings.Lines(nstest.NFT(t, ns, "", "-nn", "list", "table", "inet", "wayleave-ended")) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "elements = { ")
		if key, _, ok := strings.Cut(line, " expires "); ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// The sets have the replies of all flows except TCP and ICMP, whose replies cannot begin a flow.
func TestAdd(t *testing.T) {
	ns := nstest.New(t)
	table := open(t, ns)
	require.NoError(t, table.Add([]conntrack.Flow{
		flow(6, "10.0.0.1:80", "10.0.0.2:1024"),
		flow(1, "10.0.0.1:0", "10.0.0.2:0"), flow(58, "[fd00::1]:0", "[fd00::2]:0"),
	}))
	exists, err := table.Exists()
	require.NoError(t, err)
	require.False(t, exists, "the set keeps none of these")

	for range 2 { // adding an existing element is not an error
		require.NoError(t, table.Add([]conntrack.Flow{
			flow(17, "10.0.0.1:53", "10.0.0.2:1024"), flow(132, "[fd00::1]:7", "[fd00::2]:8"),
			flow(253, "10.0.0.3:0", "10.0.0.4:0"), flow(47, "[fd00::3]:0", "[fd00::4]:0"),
		}))
	}
	require.ElementsMatch(t, []string{
		"10.0.0.1 . 10.0.0.2 . 17 . 53 . 1024", "fd00::1 . fd00::2 . 132 . 7 . 8",
		"10.0.0.3 . 10.0.0.4 . 253", "fd00::3 . fd00::4 . 47",
	}, elements(t, ns))
	require.Contains(t, nstest.NFT(t, ns, "", "list", "table", "inet", "wayleave-ended"), "timeout 30s")
}

// Very many flows are kept in one transaction.
func TestAddMany(t *testing.T) {
	ns := nstest.New(t)
	table := open(t, ns)
	flows := make([]conntrack.Flow, 60_000)
	for i := range flows {
		flows[i] = flow(17, "10.0.0.1:53", netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), uint16(i+1)).String())
	}
	require.NoError(t, table.Add(flows))
	listing := nstest.NFT(t, ns, "", "list", "table", "inet", "wayleave-ended")
	require.Equal(t, len(flows), strings.Count(listing, " expires "))
}

// A table that another process has deleted, or that has other sets, is created again.
func TestAddCreatesTableAgain(t *testing.T) {
	for name, change := range map[string]string{
		"deleted": "delete table inet wayleave-ended",
		"changed": "delete table inet wayleave-ended; add table inet wayleave-ended",
	} {
		t.Run(name, func(t *testing.T) {
			ns := nstest.New(t)
			table := open(t, ns)
			require.NoError(t, table.Add([]conntrack.Flow{flow(17, "10.0.0.1:53", "10.0.0.2:1024")}))
			nstest.NFT(t, ns, "", change)
			require.NoError(t, table.Add([]conntrack.Flow{flow(17, "10.0.0.1:53", "10.0.0.2:1025")}))
			require.Equal(t, []string{"10.0.0.1 . 10.0.0.2 . 17 . 53 . 1025"}, elements(t, ns))
		})
	}
}

// The table is deleted when its last element has timed out, also if an earlier process made it.
func TestExpire(t *testing.T) {
	ns := nstest.New(t)
	table := open(t, ns)
	wait, err := table.Expire()
	require.NoError(t, err)
	require.Zero(t, wait, "there is none")

	require.NoError(t, table.Add([]conntrack.Flow{flow(17, "10.0.0.1:53", "10.0.0.2:1024")}))
	wait, err = table.Expire()
	require.NoError(t, err)
	require.Positive(t, wait)

	table = open(t, ns)
	wait, err = table.Expire()
	require.NoError(t, err)
	require.Positive(t, wait)
	require.LessOrEqual(t, wait, MinPeriod)
	require.Len(t, elements(t, ns), 1)

	table.expiry = time.Now().Add(-time.Nanosecond)
	wait, err = table.Expire()
	require.NoError(t, err)
	require.Equal(t, MinPeriod, wait, "it still has an element")
	nstest.NFT(t, ns, "", "flush set inet wayleave-ended replies4")
	table.expiry = time.Now().Add(-time.Nanosecond)
	wait, err = table.Expire()
	require.NoError(t, err)
	require.Zero(t, wait)
	exists, err := table.Exists()
	require.NoError(t, err)
	require.False(t, exists)
	require.NoError(t, table.Disable(), "there is no table to delete")
	require.NoError(t, table.Add([]conntrack.Flow{flow(17, "10.0.0.1:53", "10.0.0.2:1024")}))
	exists, err = table.Exists()
	require.NoError(t, err)
	require.False(t, exists, "the table is disabled")
	table.Enable()
	require.NoError(t, table.Add([]conntrack.Flow{flow(17, "10.0.0.1:53", "10.0.0.2:1024")}))
	require.Len(t, elements(t, ns), 1)
}

// An element lasts as long as the kernel would have tracked the flow, and is prolonged if the flow
// ends again.
func TestPeriod(t *testing.T) {
	ns := nstest.New(t)
	table := open(t, ns)
	f := flow(17, "10.0.0.1:53", "10.0.0.2:1024")
	expires := func(most string) {
		t.Helper()
		require.Regexp(t, `timeout `+most+` expires `, nstest.NFT(t, ns, "", "list", "table", "inet", "wayleave-ended"))
	}
	for _, c := range []struct {
		timeout time.Duration
		want    string
	}{{time.Second, "30s"}, {2 * time.Minute, "2m"}, {time.Hour, "10m"}, {time.Minute, "1m"}} {
		f.Timeout = c.timeout
		require.NoError(t, table.Add([]conntrack.Flow{f, f}))
		if c.want == "30s" { // the timeout of the set is not listed
			listing := nstest.NFT(t, ns, "", "list", "set", "inet", "wayleave-ended", "replies4")
			require.NotContains(t, listing, "timeout 1s")
			continue
		}
		expires(c.want)
	}
	require.Greater(t, time.Until(table.expiry), 9*time.Minute)
}

// Connection tracking has the ports of some protocols only if the kernel was built with support for
// them. Either side may have begun an expected flow.
func TestTuples(t *testing.T) {
	ns := nstest.New(t)
	table := open(t, ns)
	expected := flow(17, "10.0.0.1:69", "10.0.0.2:1024")
	expected.Status = conntrack.StatusExpected
	require.NoError(t, table.Add([]conntrack.Flow{flow(33, "10.0.0.1:0", "10.0.0.2:0"), expected}))
	require.ElementsMatch(t, []string{
		"10.0.0.1 . 10.0.0.2 . 33", "10.0.0.1 . 10.0.0.2 . 17 . 69 . 1024", "10.0.0.2 . 192.0.2.1 . 17 . 1024 . 99",
	}, elements(t, ns))
}

// If the send buffer is small, the elements are sent in parts.
func TestSplit(t *testing.T) {
	b := newBatch()
	for i := range 3*maxElementsSmallBuffer + 1 {
		reply := netip.AddrPortFrom(netip.MustParseAddr("10.0.0.2"), uint16(i+1)).String()
		b.add(element(flow(17, "10.0.0.1:53", reply).Reply, time.Minute))
	}
	total := 0
	for _, part := range b.split() {
		require.LessOrEqual(t, len(part.bySet["replies4"]), maxElementsSmallBuffer)
		require.Equal(t, time.Minute, part.longest)
		total += len(part.bySet["replies4"])
	}
	require.Equal(t, b.len(), total)
}
