// SPDX-License-Identifier: Apache-2.0

package nodetraffic_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/agent/internal/nodetraffic"
	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }

// lines returns the output of each mode by its name.
func lines() map[string]string {
	const ends, ends6 = "10.65.1.1 > 10.65.2.1", "fd65::1:1 > fd65::2:1"
	line := func(name, wire, wire6 string) string {
		text := name + strings.Repeat(" ", 13-len(name)) + "10.65.1.1 -> 10.65.2.1 answered: " + wire + "\n"
		if wire6 != "" {
			text += strings.Repeat(" ", 13) + "fd65::1:1 -> fd65::2:1 answered: " + wire6 + "\n"
		}
		return text
	}
	const hidden = "udp 192.0.2.1 > 192.0.2.2 port 51820: not readable"
	return map[string]string{
		"directly": line("directly", "udp "+ends, "udp "+ends6),
		"VXLAN": line("VXLAN", "udp 192.0.2.1 > 192.0.2.2 port 4789: udp "+ends,
			"udp 2001:db8::1 > 2001:db8::2 port 4789: udp "+ends6),
		"IP in IP":  line("IP in IP", "ipip 192.0.2.1 > 192.0.2.2: udp "+ends, ""),
		"WireGuard": line("WireGuard", hidden, hidden),
	}
}

func TestModes(t *testing.T) {
	nstest.New(t) // skips or fails
	want := lines()
	require.Len(t, nodetraffic.Modes(), len(want))
	for _, mode := range nodetraffic.Modes() {
		t.Run(mode.Name, func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			result, err := mode.Show(t.Context())
			require.NoError(t, err)
			require.Empty(t, result.Failures())
			left, err := os.ReadDir(temporary)
			require.NoError(t, err)
			require.Empty(t, left, "the keys are removed")
			if result.Missing != "" {
				require.NotEqual(t, "directly", mode.Name)
				require.Regexp(t, "^"+mode.Name+" +not shown: the kernel has no module [a-z]+\n$", result.String())
				return // scripts/test-kernels runs the demo with all modules
			}
			require.Equal(t, want[mode.Name], result.String())
		})
	}
}

func TestShowEndsWithItsContext(t *testing.T) {
	nstest.New(t) // skips or fails
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, mode := range nodetraffic.Modes() {
		_, err := mode.Show(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "nodetraffic: "+mode.Name+": ")
	}
}
