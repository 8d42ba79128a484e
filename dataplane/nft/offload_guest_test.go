// SPDX-License-Identifier: Apache-2.0

//go:build linux && guest

package nft_test

import (
	"fmt"
	"testing"
)

// offloads returns variants with a flowtable: established flows that the forward hook accepted skip it. The
// kernel must have nft_flow_offload.
func offloads(in, out string) []knownVariant {
	flowtable := fmt.Sprintf(`
table inet fast {
	flowtable f { hook ingress priority 0; devices = { %s, %s }; }
	chain forward { type filter hook forward priority 10; ct state established flow add @f; }
}
`, in, out)
	return []knownVariant{
		{"nothing", func(testing.TB, string) string { return "table inet nothing {}\n" }},
		{"conntrack-offloaded", func(testing.TB, string) string { return baselines()[1].table + flowtable }},
		{"rendered-offloaded", func(_ testing.TB, table string) string { return table + flowtable }},
	}
}
