! in: f64, out: f64
function run(x, n, out) bind(c) result(written)
  use iso_c_binding
  integer(c_long), value :: n
  real(c_double), intent(in) :: x(n)
  real(c_double), intent(out) :: out(n)
  integer(c_long) :: written, i
  do i = 1, n
    out(i) = x(i)**3 + sin(x(i)) * x(i)**(i - 5)
  end do
  written = n
end function
