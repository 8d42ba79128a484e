// SPDX-License-Identifier: Apache-2.0

package nsthread

import "errors"

// errNoReturn is the error of a function that ends with runtime.Goexit, as a failing test does.
var errNoReturn = errors.New("nsthread: the function did not return")
