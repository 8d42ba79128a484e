// SPDX-License-Identifier: Apache-2.0

package routes_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/dataplane/routes"
)

func TestConfigProblems(t *testing.T) {
	_, err := routes.New(routes.Config{
		NetNS: -1, Protocol: 2, Table: 255,
		Bridges: []string{"br/0", "br0", "br0", routes.DefaultDevice4},
		Sysctls: []routes.Sysctl{{Family: 5, Name: "../forwarding", Value: ""}, {Family: 4, Name: "", Value: "1\n"}},
	})
	for _, field := range []string{
		"NetNS", "Protocol", "Table", "Sysctls[0].Family", "Sysctls[0].Name", "Sysctls[0].Value", "Sysctls[1].Name",
		"Sysctls[1].Value", "Bridges[0]", "Bridges[2]", "Bridges[3]",
	} {
		require.ErrorContains(t, err, "routes: "+field+":")
	}
	require.NotContains(t, err.Error(), "Bridges[1]")
	_, err = routes.New(routes.Config{})
	require.NoError(t, err)
}
