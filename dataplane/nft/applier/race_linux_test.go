// SPDX-License-Identifier: Apache-2.0

package applier_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/nft/applier"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfnl"
	"github.com/wayleave/wayleave/dataplane/nft/internal/nfttest"
	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A transaction of another process that is not finished while the table is read is detected: its
// generation number appears before its effects.
func TestForeignChangeWhileReading(t *testing.T) {
	ns := nstest.New(t)
	a := open(t, ns)
	require.NoError(t, a.Apply(bg, sample()))
	conn, err := nfnl.Dial(nfnl.Config{NetNS: ns.FD()})
	require.NoError(t, err)
	defer conn.Close()
	many := 30_000
	if users, err := os.ReadFile("/proc/self/uid_map"); err == nil && !strings.Contains(string(users), "4294967295") {
		many = 3_000 // nft sends no more for an ordinary user
	}
	other := &ruleset.Table{Name: "other", Sets: []*ruleset.Set{{
		Name: "s", Key: []ruleset.Type{ruleset.TypeIPv4}, Elements: addresses(many),
	}}}
	script := other.String() + "chain inet own forward { policy drop; }\n"
	for range 5 {
		nft(t, ns, "table inet other\ndelete table inet other")
		require.NoError(t, a.Resync(bg))
		before, err := conn.Generation()
		require.NoError(t, err)
		done, ended := make(chan error, 1), make(chan struct{})
		go func() {
			defer close(ended)
			done <- ns.Do(func() error {
				cmd := exec.Command("nft", "-f", "-")
				cmd.Stdin = strings.NewReader(script)
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("nft: %w: %.300s", err, out)
				}
				return nil
			})
		}()
		for now := before; now == before; {
			select {
			case <-ended: // it failed, or the transaction is complete
				now++
			default:
				now, err = conn.Generation()
				require.NoError(t, err)
			}
		}
		require.NoError(t, a.Verify(bg))
		require.NoError(t, <-done)
		require.NoError(t, a.Resync(bg))
		require.NotContains(t, nft(t, ns, "", "list", "chain", "inet", "own", "forward"), "policy drop")
	}
}

// Verify repairs a change that another process makes between two of its requests, whichever these
// are.
func TestForeignChangeBetweenRequests(t *testing.T) {
	ns := nstest.New(t)
	a, f := openFaulty(t, ns, applier.Config{Shared: true})
	require.NoError(t, a.Apply(bg, sample()))
	want, requests := nfttest.Blocks(listing(t, ns)), 0
	f.read = func() { requests++ }
	require.NoError(t, a.Verify(bg))
	require.Greater(t, requests, 5)
	for before := range requests {
		request := 0
		f.read = func() {
			if request == before {
				nft(t, ns, "insert rule inet own forward accept\ndelete element inet own hosts { 10.0.0.1 }")
			}
			request++
		}
		require.NoError(t, a.Verify(bg))
		f.read = nil
		require.Equal(t, want, nfttest.Blocks(listing(t, ns)), "before request %d", before)
	}
	t.Logf("a change before each of %d requests", requests)
}
