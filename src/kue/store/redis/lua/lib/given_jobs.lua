-- Check the jobs in ARGV from `first` on, three values each, and return the last position
-- that this call goes to.  A blocked job may wait for 1,000 others, each of which has to
-- forget it: a call ends after the job with which it has checked MAX_PARENTS.  The caller
-- passes the rest again.
local MAX_PARENTS = 1000

local function check_jobs(first)
  for i = first, #ARGV, 3 do
    if checked_parents >= MAX_PARENTS then
      return i - 1
    end
    local head = header(ARGV[i])
    if head then
      check_job(ARGV[i], head)
    end
  end
  return #ARGV
end
