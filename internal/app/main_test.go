package app_test

import (
	"testing"

	"github.com/makegood/makegood/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }
