// SPDX-License-Identifier: Apache-2.0

package nstest_test

import (
	"testing"

	"github.com/wayleave/wayleave/internal/netns/nstest"
)

func TestMain(m *testing.M) { nstest.Main(m) }
