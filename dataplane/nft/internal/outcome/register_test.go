// SPDX-License-Identifier: Apache-2.0

package outcome

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Numbers of classes are not zero and differ from those of outcomes. No outcome has a reserved
// number.
func TestNumberRanges(t *testing.T) {
	for _, hash := range []uint32{
		0, 1, firstOutcome - 1, firstOutcome, firstOutcome + 1, Reserved - 1, Reserved, Reserved + 1, 1<<32 - 1,
	} {
		require.NotZero(t, classNumber(hash))
		require.Less(t, classNumber(hash), firstOutcome)
		require.GreaterOrEqual(t, outcomeNumber(hash), firstOutcome)
		require.Less(t, outcomeNumber(hash), Reserved)
		require.Zero(t, outcomeNumber(hash)&(1<<30))
	}
}
