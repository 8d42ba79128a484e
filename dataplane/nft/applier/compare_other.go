// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package applier

import (
	"context"

	"github.com/wayleave/wayleave/dataplane/nft/ruleset"
)

// Compare returns ErrUnsupported.
func Compare(context.Context, int, *ruleset.Table) (Comparison, error) {
	return Comparison{}, ErrUnsupported
}

// Elements returns ErrUnsupported.
func Elements(context.Context, int, *ruleset.Table) (map[string][]ruleset.Element, error) {
	return nil, ErrUnsupported
}
