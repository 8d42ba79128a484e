// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package observed

import "errors"

// keepNamespace returns errors.ErrUnsupported.
func keepNamespace(int) (fd int, release func() error, err error) {
	return 0, func() error { return nil }, errors.ErrUnsupported
}
