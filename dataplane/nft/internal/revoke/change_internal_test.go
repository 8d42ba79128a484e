// SPDX-License-Identifier: Apache-2.0

package revoke

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// S171: a change of only bridges is not empty: an endpoint may get such an interface later.
func TestChangeOfBridgesIsNotEmpty(t *testing.T) {
	require.True(t, (&Change{}).empty())
	require.False(t, (&Change{Addresses: AddressChanges{Bridges: map[string]string{"way1": ""}}}).empty())
}
