// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Each invalid line is reported by file and line.
func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		"":                             "",
		" # nothing":                   "",
		"tcp 80 10.0.0.2:8080 # a":     "",
		"udp 65535 [2001:db8::2]:1":    "",
		"tcp 80":                       "2 words",
		"tcp 80 10.0.0.2:80 x":         "4 words",
		"sctp 80 10.0.0.2:80":          `protocol "sctp"`,
		"tcp 65536 10.0.0.2:80":        `port "65536"`,
		"tcp http 10.0.0.2:80":         `port "http"`,
		"tcp 80 10.0.0.2":              `target "10.0.0.2"`,
		"tcp 80 web:80":                `target "web:80"`,
		"tcp 80 10.0.0.2:0":            `target "10.0.0.2:0"`,
		"tcp 80 [::ffff:10.0.0.2]:80":  "target",
		"tcp 80 [fe80::2%eth0]:80":     "target",
		"tcp 443 10.0.0.9:443":         "tcp 443 is forwarded by line 1 already",
		"tcp 443 [2001:db8::2]:443":    "",
		"udp 443 10.0.0.2:443":         "",
		"tcp 443 10.0.0.2:443\ntcp 80": "f:2: tcp 443 is forwarded by line 1 already\nf:3: 2 words",
	} {
		_, err := parse("f", "tcp 443 10.0.0.2:443\n"+line)
		if want == "" {
			require.NoError(t, err, line)
			continue
		}
		require.ErrorContains(t, err, want, line)
		require.ErrorContains(t, err, "f:2: ", line)
	}
}

// The table has what nft would make of it.
func TestTable(t *testing.T) {
	forwards, err := parse("f", "tcp 80 10.0.0.2:8080\nudp 53 [2001:db8::2]:5353\n")
	require.NoError(t, err)
	table := newTable("forwards", forwards)
	require.NoError(t, table.Validate())
	require.Equal(t, `table inet forwards {
	map to4 {
		type inet_proto . inet_service : ipv4_addr . inet_service
		elements = { tcp . 80 : 10.0.0.2 . 8080 }
	}

	map to6 {
		type inet_proto . inet_service : ipv6_addr . inet_service
		elements = { udp . 53 : 2001:db8::2 . 5353 }
	}

	chain prerouting {
		type nat hook prerouting priority -100; policy accept;
		meta nfproto ipv4 fib daddr type local dnat ip to meta l4proto . th dport map @to4
		meta nfproto ipv6 fib daddr type local dnat ip6 to meta l4proto . th dport map @to6
	}
}
`, table.String())
}
