// SPDX-License-Identifier: Apache-2.0

package dataplane_test

import (
	"errors"
	"fmt"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/policy"
)

// One endpoint could not be programmed; the others are. A caller without a Driver reads from the
// error which one it is.
func ExampleApplyErrors() {
	web := policy.Key{Kind: policy.KindWorkloadEndpoint, Namespace: "shop", Name: "web"}
	err := errors.Join(&dataplane.ApplyError{
		Backend: "routes", Op: "add route", Object: web, Err: errors.New("no such interface"),
	})

	objects, general := dataplane.ApplyErrors(err)
	for key, cause := range objects {
		fmt.Println(key, "is at fault:", cause.Err)
	}
	fmt.Println("the rest is unknown:", general)
	// Output:
	// WorkloadEndpoint/shop/web is at fault: no such interface
	// the rest is unknown: false
}
