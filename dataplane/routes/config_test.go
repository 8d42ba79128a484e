// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
)

func TestConfigProblems(t *testing.T) {
	_, err := routes.New(routes.Config{
		NetNS: -1, Protocol: 2, Tables: []uint32{255, 7, 7}, Parent: "a/b",
		Bridges: []string{"br/0", "br0", "br0", routes.DefaultDevice4},
		Sysctls: []routes.Sysctl{{Family: 5, Name: "../forwarding", Value: ""}, {Family: 4, Name: "", Value: "1\n"}},
	})
	for _, field := range []string{
		"NetNS", "Protocol", "Tables[0]", "Tables[2]", "Parent",
		"Sysctls[0].Family", "Sysctls[0].Name", "Sysctls[0].Value", "Sysctls[1].Name",
		"Sysctls[1].Value", "Bridges[0]", "Bridges[2]", "Bridges[3]",
	} {
		require.ErrorContains(t, err, "routes: Config."+field+":")
	}
	require.NotContains(t, err.Error(), "Bridges[1]")
	for _, row := range []struct{ device4, device6, ipip, want string }{
		{"a/b", "", "", `VXLAN.Device4: "a/b" is not an interface name`},
		{"", "vxlan.way", "", `VXLAN.Device6: "vxlan.way" is the name of another device`},
		{"", "", "a b", `IPIP.Device: "a b" is not an interface name`},
		{"", "", "vxlan6.way", `IPIP.Device: "vxlan6.way" is the name of another device`},
		{"", "", "tunl0", "IPIP.Device: tunl0 is the kernel's own"},
	} {
		cfg := routes.Config{IPIP: routes.IPIPConfig{Device: row.ipip}}
		cfg.VXLAN.Device4, cfg.VXLAN.Device6 = row.device4, row.device6
		_, err = routes.New(cfg)
		require.ErrorContains(t, err, "routes: Config."+row.want)
	}
	_, err = routes.New(routes.Config{Bridges: []string{routes.DefaultIPIPDevice}})
	require.ErrorContains(t, err, `Bridges[0]: "ipip.way" is the name of a tunnel device`)
	_, err = routes.New(routes.Config{})
	require.NoError(t, err)
}
