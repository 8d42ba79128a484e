// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
)

func runTest(context.Context, *cluster, []string) error { return errors.New("not yet") }
