// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wayleave/wayleave/examples/internal/api"
)

func TestPolicyText(t *testing.T) {
	p := &api.PolicyCost{
		Cost: 10, Limit: 20, Largest: "ingress of WorkloadEndpoint/shop/web", LargestCost: 5, GroupLimit: 8,
	}
	require.Equal(t, "cost 10 of 20; largest group 5 of 8, ingress of WorkloadEndpoint/shop/web", policyText(p))
	p.ChainGroups = 3
	require.Contains(t, policyText(p), "; 3 groups over a limit are chains")
}
