// SPDX-License-Identifier: Apache-2.0

package nstest_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

// A capture has the packets of one interface. Each is returned once.
func TestCapture(t *testing.T) {
	node := nstest.New(t)
	a := nstest.NewPeer(t, node, "a", "10.0.1.1/24", "2001:db8:1::1/64")
	nstest.NewPeer(t, node, "b", "10.0.2.1/24")
	nstest.Serve(t, node, ":80", "node")
	atA, atB := nstest.NewCapture(t, node, "a"), nstest.NewCapture(t, node, "b")
	require.Equal(t, "node", nstest.Answer(t, a, "tcp", "10.0.1.1:80"))
	require.Equal(t, "node", nstest.Answer(t, a, "tcp", "[2001:db8:1::1]:80"))
	require.Contains(t, nstest.Answer(t, a, "tcp", "10.0.1.1:81"), "refused")
	require.Equal(t, []string{
		"10.0.1.1:80 > 10.0.1.2", "10.0.1.2 > 10.0.1.1:80", "10.0.1.2 > 10.0.1.1:81",
		"2001:db8:1::2 > [2001:db8:1::1]:80", "[2001:db8:1::1]:80 > 2001:db8:1::2",
	}, atA.TCPStarts())
	require.Empty(t, atA.TCPStarts())
	require.Empty(t, atB.TCPStarts())
}
