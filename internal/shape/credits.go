package shape

import (
	"fmt"
	"strconv"
)

// Credits shows an amount to a person, with scale decimals: with 2, 150 credits read 1.50.
func Credits(n int64, scale int) string {
	if scale == 0 {
		return strconv.FormatInt(n, 10)
	}
	sign, unit := "", int64(1)
	if n < 0 {
		sign, n = "-", -n
	}
	for range scale {
		unit *= 10
	}
	return fmt.Sprintf("%s%d.%0*d", sign, n/unit, scale, n%unit)
}

// Signed is Credits with a + before what was added.
func Signed(n int64, scale int) string {
	return signed(n, func(n int64) string { return Credits(n, scale) })
}
