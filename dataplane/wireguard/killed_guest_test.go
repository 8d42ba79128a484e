// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package wireguard_test

import (
	"bufio"
	"math/rand/v2"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/calcgraph"
	"github.com/wayleave/wayleave/dataplane/wireguard"
	"github.com/wayleave/wayleave/policy"
)

// killedChild is set, to the path of the key file, in a process that keeps the first node of a cluster: its
// namespace is file 3, and the resources come from the standard input.
const killedChild = "WAYLEAVE_TEST_WIREGUARD"

// A process that is killed and starts again loses no packet, and keeps the sessions.
func TestProcessKilledUnderTraffic(t *testing.T) {
	if path := os.Getenv(killedChild); path != "" {
		restartUntilKilled(t, path)
	}
	const kills = 6
	c := newCluster(t, 2, nil)
	c.requireReachable()
	n, rng := c.nodes[0], rand.New(rand.NewPCG(4, 8))
	n.stop()
	index, err := n.ns.Link("wg.way")
	require.NoError(t, err)
	traffic := n.startTraffic(c.nodes[1], c.nodes[1].pod.Addresses[0])
	for range kills {
		child := exec.Command(os.Args[0], "-test.run=^TestProcessKilledUnderTraffic$")
		namespace, err := syscall.Dup(n.ns.FD())
		require.NoError(t, err)
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(namespace), "netns")}
		child.Env = append(os.Environ(), killedChild+"="+n.cfg.Devices[0].KeyFile)
		in, err := child.StdinPipe()
		require.NoError(t, err)
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		require.NoError(t, child.ExtraFiles[0].Close())
		for _, r := range n.resources {
			line, err := policy.Encode(r)
			require.NoError(t, err)
			_, err = in.Write(append(line, '\n'))
			require.NoError(t, err)
		}
		require.NoError(t, in.Close())
		started := make([]byte, 1)
		_, err = out.Read(started)
		require.NoError(t, err)
		require.Equal(t, "!", string(started))
		// how far it gets is the randomness of this test
		<-time.NewTimer(time.Duration(rng.IntN(400)) * time.Millisecond).C
		require.NoError(t, child.Process.Kill())
		_ = child.Wait() // killed
	}
	sent, answered := traffic()
	t.Logf("%d packets, %d answers", sent, answered)
	require.Equal(t, sent, answered)
	require.Greater(t, sent, 10*kills)
	after, err := n.ns.Link("wg.way")
	require.NoError(t, err)
	require.Equal(t, index, after)
}

// restartUntilKilled starts a dataplane repeatedly, for some seconds at most.
func restartUntilKilled(t *testing.T, keyFile string) {
	graph, err := calcgraph.New(calcgraph.Config{Node: "n1"})
	require.NoError(t, err)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		r, err := policy.Decode(lines.Bytes())
		require.NoError(t, err)
		graph.Update(policy.Update{Key: r.Key(), Resource: r})
	}
	require.NoError(t, lines.Err())
	graph.InSync()
	graph.Flush()
	for i := range 500 {
		d, err := wireguard.New(wireguard.Config{
			Node: "n1", NetNS: 3, Devices: []wireguard.Device{{KeyFile: keyFile}},
		})
		require.NoError(t, err)
		require.NoError(t, d.Apply(t.Context(), graph.Snapshot()))
		if i == 0 {
			_, err = os.Stdout.WriteString("!")
			require.NoError(t, err)
		}
		require.NoError(t, d.Resync(t.Context()))
		require.NoError(t, d.Close())
	}
	os.Exit(1) // it was not killed
}
