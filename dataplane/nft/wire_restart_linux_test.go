// SPDX-License-Identifier: Apache-2.0

package nft_test

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/dataplane/nft"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/render"
	"github.com/wayleave/wayleave/internal/netns/nstest"
	"github.com/wayleave/wayleave/policy"
	"github.com/wayleave/wayleave/policy/verdict"
)

// pairFlow returns a packet between two of the workloads of shop.
func pairFlow(from, to, family int, f verdict.Flow) wireFlow {
	f.Src, f.Dst = workloadAddrs(from)[family], workloadAddrs(to)[family]
	return wireFlow{
		Flow: f, from: endOf(fmt.Sprintf("way%d", from+1), f.Src), to: endOf(fmt.Sprintf("way%d", to+1), f.Dst),
	}
}

// endOf returns the end of a flow at an address behind an interface.
func endOf(iface string, a netip.Addr) nfttest.FlowEnd { return nfttest.FlowEnd{Iface: iface, Addr: a} }

// shopWire returns a node with the workloads of shop.
func shopWire(t *testing.T) *wire {
	t.Helper()
	w := newWire(t, []string{"way1", "way2", "way3"}, nil)
	for i := range 3 {
		for _, a := range workloadAddrs(i) {
			w.setRoute(t, a, fmt.Sprintf("way%d", i+1))
		}
	}
	return w
}

// TestWireRestart: an agent restarts with the same policy and adopts its former table. No packet is
// lost, no counter starts at zero, and only the owner of the table is written.
func TestWireRestart(t *testing.T) { nfttest.EachForm(t, testWireRestart) }

func testWireRestart(t *testing.T, classes render.ClassesConfig) {
	b := shopWire(t)
	cfg := render.Config{Classes: classes, Counters: true}
	first, err := nft.New(nft.Config{Renderer: cfg, NetNS: b.node.FD()}) // without a flowtable, which is written, too
	require.NoError(t, err)
	require.NoError(t, first.Apply(t.Context(), nfttest.Transition(policed())))
	const restarts = 20
	ofOwner := restarts * nstest.OwnerWrites(t, first.Stats().Owned)
	require.NoError(t, first.Close())
	written := generation(t, b.node)

	open := pairFlow(0, 1, 0, verdict.Flow{
		Protocol: policy.ProtocolTCP, SrcPort: 1, DstPort: 80, State: verdict.StateEstablished,
	})
	open.establish(t, b)
	sent := 1
	// port is the next source port. After the last one, it begins again with 2. The connection open
	// has port 1, and is not new.
	port := func() uint16 { return uint16(2 + (sent-1)%65000) }
	traffic := func() {
		flows := []wireFlow{open}
		for range 16 {
			flows = append(flows, pairFlow(0, 1, 0, verdict.Flow{
				Protocol: policy.ProtocolTCP, SrcPort: port(), DstPort: 80,
			}))
			sent++
		}
		for i, arrived := range b.volley(t, flows) {
			require.True(t, arrived, "%s", flows[i].Flow)
		}
	}
	for range restarts {
		restarted := make(chan error, 1)
		go func() {
			restarted <- func() error {
				d, err := nft.New(nft.Config{Renderer: cfg, NetNS: b.node.FD()})
				if err != nil {
					return err
				}
				for _, batch := range []dataplane.Batch{nfttest.Transition(policed()), {}} {
					if err := d.Apply(t.Context(), batch); err != nil {
						return err
					}
				}
				if err := d.Resync(t.Context()); err != nil {
					return err
				}
				return d.Close()
			}()
		}()
		for running := true; running; {
			traffic()
			select {
			case err := <-restarted:
				require.NoError(t, err)
				running = false
			default:
			}
		}
	}
	require.EqualValues(t, int(written)+ofOwner, generation(t, b.node), "a write besides that of the owner")
	require.Equal(t, sent, counted(t, b), "every connection has been counted once")
}

// counted returns how many packets the rule "web" has counted.
func counted(t *testing.T, b *wire) int {
	t.Helper()
	text := nstest.NFT(t, b.node, "", "list", "table", "inet", "wayleave")
	total := 0
	for _, m := range regexp.MustCompile(
		`counter packets (\d+) bytes \d+ meta priority set [^\n]* return comment "web"`,
	).FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		require.NoError(t, err)
		total += n
	}
	return total
}
